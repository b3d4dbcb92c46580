"""Temporary."""
OFFLINE_MODEL = {"id":"rehearsal","name":"Rehearsal","api":"offline","provider":"offline","baseUrl":"","reasoning":True,"input":["text","image"],"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"contextWindow":128000,"maxTokens":16384}
