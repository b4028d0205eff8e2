package main

func (r *report) svg() string { return "" }

const chartTitle = "Quorate and its peers"
